"""Probes, which measure a trained run where Table 5 tests a claim that needs no other training.

A new probe needs a module here, of its name, with

    add_options(parser)  its own options of `python -m transformer probe NAME`
    make(subject, args)  what it measured, as JSON can hold it (subject: measures.Subject)

and its name in `PROBED` (config/runs.py), with the experiments that it measures. What several probes need is in
measures.py. That loads torch and sacreBLEU, so the modules import it where they use it: `probe NAME --help` waits for
neither.
"""
