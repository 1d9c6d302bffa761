"""Tables: a function of files and parameters makes the table for readers and the frame behind it."""
