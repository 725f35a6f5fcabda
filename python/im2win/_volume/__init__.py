"""Three-dimensional convolutions, made of two-dimensional ones."""
