"""The commands: what people, torchrun and the rules call, each a function whose signature is its command line."""
