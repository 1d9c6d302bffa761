# Snakemake's limit on jobs a second starts a timer after each finished job, and each timer makes the scheduler look at
# all waiting jobs again and start another: with a hundred jobs finished, that takes half a core for ever. A cluster's
# queue is limited by `jobs`.
onstart:
    workflow.scheduler.job_rate_limiter = None
