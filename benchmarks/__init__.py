"""How fast this project is, beside its peers on the same data, sizes and machine. See README.md."""
