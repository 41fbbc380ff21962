# The worker (and every other `sluice` verb) as docker-compose.yml runs it.
# This image's interpreter is built with --enable-optimizations and --with-lto (docs/performance.md, "The interpreter").
FROM python:3.11.13-slim-bookworm

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /srv/sluice

# First, so that a change of the code does not install the dependencies again.
COPY requirements.lock requirements-uv.lock ./
RUN pip install --no-deps --only-binary :all: --require-hashes -r requirements-uv.lock \
    && uv pip install --system --no-cache --no-deps --only-binary :all: --require-hashes -r requirements.lock \
    && pip uninstall --yes uv

COPY pyproject.toml README.md LICENSE ./
COPY config config
COPY topics topics
COPY app app
RUN pip install --no-deps --no-build-isolation . && useradd --system --uid 10001 sluice
# Where `sluice init` keeps settings and keys; volumes that are mounted here take this owner.
RUN install -d -o sluice -m 0700 /var/lib/sluice /var/lib/sluice/keys /var/lib/sluice/redis

USER sluice
ENTRYPOINT ["sluice"]
CMD ["worker"]
