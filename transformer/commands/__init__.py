"""The subcommands for people, torchrun and the rules. A function's signature defines its command line."""
