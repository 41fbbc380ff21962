# The worker (and every other `sluice` verb) as docker-compose.yml and the Helm chart run it (docs/install.md).
# This image's interpreter is built with --enable-optimizations and --with-lto (docs/performance-parts.md, "The interpreter").
# A tag may move: pin its digest for a build of your own (docs/install.md, "The image").
FROM python:3.11.13-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1 UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
WORKDIR /src

# First, so that a change of the code does not install the dependencies again.
COPY requirements.lock requirements-uv.lock ./
RUN python -m venv /opt/uv \
    && /opt/uv/bin/pip install --quiet --no-deps --only-binary :all: --require-hashes -r requirements-uv.lock
RUN python -m venv --without-pip /opt/sluice \
    && /opt/uv/bin/uv pip install --quiet --python /opt/sluice/bin/python --no-deps --only-binary :all: \
        --require-hashes -r requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY config config
COPY topics topics
COPY app app
COPY docs/examples/demo docs/examples/demo
RUN /opt/sluice/bin/python -m hatchling build --target wheel --directory /src/dist \
    && /opt/uv/bin/uv pip install --quiet --python /opt/sluice/bin/python --no-deps /src/dist/*.whl \
    && /opt/uv/bin/uv pip uninstall --quiet --python /opt/sluice/bin/python hatchling testcontainers

# Here nothing can install or build: no pip, no uv, no compiler, and the programs belong to root.
FROM python:3.11.13-slim-bookworm

RUN python -m pip uninstall --quiet --yes --root-user-action ignore pip setuptools wheel \
    && groupadd --system --gid 10001 sluice \
    && useradd --system --no-create-home --home-dir /var/lib/sluice --gid sluice --uid 10001 sluice \
    && install -d -o sluice -g sluice -m 0700 /var/lib/sluice /var/lib/sluice/keys /var/lib/sluice/redis \
        /var/lib/sluice/heads /var/lib/sluice/archive /run/sluice
COPY --from=build /opt/sluice /opt/sluice

# Settings and keys lie in /var/lib/sluice, where `sluice init` keeps them: volumes that are mounted there take its owner.
# Nothing is written elsewhere but to /tmp and /run/sluice, which may be file systems in memory.
# Each process that stays serves its health on one port, inside the container alone until a variable says otherwise.
ENV PATH=/opt/sluice/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 SLUICE_CACHE__FOLDER=/tmp/sluice-cache \
    SLUICE_WORKER__METRICS_ADDRESS=127.0.0.1:9464 SLUICE_GATEWAY__METRICS_ADDRESS=127.0.0.1:9464 \
    SLUICE_NOTIFY__METRICS_ADDRESS=127.0.0.1:9464
USER 10001:10001
WORKDIR /var/lib/sluice
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=6 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:9464/readyz')"]
ENTRYPOINT ["sluice"]
CMD ["worker"]
