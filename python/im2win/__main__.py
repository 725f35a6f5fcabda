from im2win.cli import app

app(prog_name="im2win")
