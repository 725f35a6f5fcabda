module edges

go 1.19
