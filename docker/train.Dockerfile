# Training, export and all other commands, with torch: docker build -f docker/train.Dockerfile .
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG EXTRAS=cpu,serve,render,fast,gl,train
WORKDIR /srv
# What we depend on comes before our code, so that a change of ours leaves this layer (several GB) as it was.
COPY pyproject.toml requirements.lock install.py ./
# Behind a proxy of your own: --secret id=pip,src=pip.conf --secret id=ca,src=ca-bundle.pem
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    --mount=type=cache,target=/root/.cache \
    touch README.md \
    && export UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 \
    && python3 install.py --uv /opt/uv /opt/venv ".[${EXTRAS}]" \
    && python3 install.py --uv /opt/uv /opt/sbom cyclonedx-bom \
    && rm install.py /opt/*/requirements.lock
COPY multifold multifold
COPY index index
COPY renderers renderers
COPY training training
COPY app app
COPY bundles bundles
COPY LICENSE THIRD_PARTY.md ./
RUN python3 -m compileall -q --invalidation-mode unchecked-hash multifold index renderers training app

FROM ${BASE} AS system
# EGL, for views that are drawn by the GPU's OpenGL.
ARG PACKAGES="libegl1 libopengl0"
# hadolint ignore=DL3008
RUN apt-get update -q && apt-get install -qy --no-install-recommends ${PACKAGES} && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin multifold \
    && install --directory --owner multifold --group multifold --mode 750 /work /bundles

# What the image is made of; the tool that lists it is not part of it.
FROM system AS sbom
COPY --from=build /opt /opt
COPY pyproject.toml /srv/
COPY docker/sbom.py /srv/docker/
RUN /opt/sbom/bin/python /srv/docker/sbom.py /opt/venv/bin/python /srv/sbom.json

FROM system
COPY --from=build /opt/venv /opt/venv
COPY --from=build /srv /srv
COPY --from=sbom /srv/sbom.json /srv/
# NVIDIA_*: read by NVIDIA's container runtime alone; graphics is what EGL needs.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/tmp/numba \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics
USER 10001:10001
WORKDIR /srv
VOLUME /work
ENTRYPOINT ["multifold"]
CMD ["--help"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.title="Multifold training" \
      org.opencontainers.image.description="Multifold cross-modal retrieval: training, export and all commands" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
