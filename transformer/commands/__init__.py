"""The commands for users, torchrun and the rules. The signature of each function defines its command line."""
