# The image of pyrbacproxy. BASE may be pinned by digest: --build-arg BASE=python:3.11-slim-bookworm@sha256:...
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
# unchecked-hash: a root that is read-only can't refresh bytecode, and no start pays for a look at the sources.
RUN python -m venv --without-pip /opt/pyrbacproxy \
    && pip --python /opt/pyrbacproxy/bin/python install --no-cache-dir --no-compile . \
    && /opt/pyrbacproxy/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/pyrbacproxy/lib

FROM ${BASE}
# The base brings bash and sleep, which init containers written for kube-rbac-proxy's image run from it.
COPY --from=build /opt/pyrbacproxy /opt/pyrbacproxy
RUN ln -s /opt/pyrbacproxy/bin/pyrbacproxy /usr/local/bin/pyrbacproxy \
    && ln -s /opt/pyrbacproxy/bin/pyrbacproxy /usr/local/bin/kube-rbac-proxy \
    && command -v bash sleep
ENV PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["pyrbacproxy"]
