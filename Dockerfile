# The environment of requirements.lock. The code comes from the checkout, so that an edit needs no new image:
#
#   docker build -t transformer .
#   docker run --rm -u "$(id -u):$(id -g)" -v "$PWD:/work" transformer --cores all
#
# With NVIDIA's container toolkit, add `--gpus all` to `docker run`.
FROM python:3.11-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends git make g++ \
 && rm -rf /var/lib/apt/lists/*
COPY requirements.lock /tmp/requirements.lock
ARG TORCH_INDEX=https://pypi.org/simple
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -r /tmp/requirements.lock
# Git refuses a folder of another user, and every result records its commit. Caches need a folder that any user may write.
RUN git config --system --add safe.directory /work
ENV HOME=/tmp
WORKDIR /work
ENTRYPOINT ["python", "-m", "snakemake"]
