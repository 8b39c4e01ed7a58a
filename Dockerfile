# The image of pyrbacproxy, for amd64 and arm64. Any Debian-like base with python, pip, bash and sleep will do;
# packaging/README.md says how to pin it by digest, and how to give pip a configuration of your own.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
COPY pyproject.toml setup.py README.md LICENSE ./
COPY src src
# What /version shows; there is no git here.
ARG COMMIT=
ARG TREE_STATE=
# unchecked-hash: a root that is read-only can't refresh bytecode, and no start pays for a look at the sources.
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    python -m venv --without-pip /opt/pyrbacproxy \
    && PYRBACPROXY_COMMIT="${COMMIT}" PYRBACPROXY_TREE_STATE="${TREE_STATE}" \
        pip --python /opt/pyrbacproxy/bin/python install --no-cache-dir --no-compile . \
    && /opt/pyrbacproxy/bin/python -m compileall -q -j 0 -o 2 --invalidation-mode unchecked-hash /opt/pyrbacproxy/lib

FROM ${BASE}
# The official Python images come without bytecode of the standard library.
# The base brings bash and sleep, which init containers written for kube-rbac-proxy's image run from it.
RUN python -m compileall -q -j 0 -o 2 --invalidation-mode unchecked-hash \
        -x '/(dist-packages|ensurepip|idlelib|lib2to3|pydoc_data|site-packages|test|tkinter|turtledemo)/' \
        "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && ln -s /opt/pyrbacproxy/bin/pyrbacproxy /usr/local/bin/pyrbacproxy \
    && ln -s /opt/pyrbacproxy/bin/pyrbacproxy /usr/local/bin/kube-rbac-proxy \
    && command -v bash && command -v sleep
COPY --from=build /opt/pyrbacproxy /opt/pyrbacproxy
# Without docstrings and assertions, none of which does any work: 1 MiB less. There is no other bytecode.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONOPTIMIZE=2
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/pyrbacproxy"]
