"""`python -m transformer COMMAND ...` runs one subcommand. Without a subcommand it lists all of them. See cli.py."""

from transformer.cli import program

if __name__ == "__main__":
    program()
