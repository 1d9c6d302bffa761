"""The stages of the pipeline: one verb, one module, one `main(argv)`: parse, load, one library call, write, check."""
