"""`python -m transformer COMMAND ...` runs one subcommand; without one, it lists them. See cli.py."""

from transformer.cli import program

if __name__ == "__main__":
    program()
