"""Tables. A function of files and parameters returns the table for readers and the underlying frame."""
