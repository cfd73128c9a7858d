# weft in a container, without GPUs:
#   docker build -t weft .
#   docker run -p 8080:8080 -v /srv/models:/models -v ./keys.txt:/run/secrets/weft/api-keys weft serve -m model
#
# The server needs a file of API keys, since other machines may reach it. For this machine alone:
#   docker run -p 127.0.0.1:8080:8080 -v /srv/models:/models weft serve -m model --api-key-file ""
#
# For a build that can be repeated, pin the base image. The first command shows its digest:
#   docker buildx imagetools inspect debian:12-slim
#   docker build --build-arg BASE=debian:12-slim@sha256:... -t weft .
ARG BASE=debian:12-slim
FROM ${BASE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends make ca-certificates
WORKDIR /src
# What changes least is copied first, and kept as a layer.
COPY scripts/setup.sh scripts/packages.txt scripts/
RUN scripts/setup.sh build deb
COPY . .
RUN make deb

FROM ${BASE}
RUN --mount=type=bind,from=build,source=/src/build/release,target=/packages \
    apt-get update \
    && apt-get install -y --no-install-recommends /packages/weft_*.deb \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --home-dir /var/lib/weft weft \
    && mkdir /models && ln -s /models /var/lib/weft/models
# The port is the container's own: what reaches it is said with -p. Packed weights are kept in /var/lib/weft.
ENV WEFT_CACHE=/var/lib/weft WEFT_ARG_HOST=0.0.0.0 WEFT_ARG_API_KEY_FILE=/run/secrets/weft/api-keys
USER weft
VOLUME ["/models"]
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=6s --start-period=120s CMD ["weft", "health"]
ENTRYPOINT ["weft"]
CMD ["serve"]
