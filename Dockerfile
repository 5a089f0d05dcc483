# The program alone, with the certificates that https needs. It serves MCP on stdin and stdout: docker run -i --rm.

# Pinned by the digest of its multi-platform index; the compiler is the one of releases, which Go fetches and verifies.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm@sha256:b305420a68d0f229d91eb3b3ed9e519fcf2cf5461da4bef997bf927e8c0bfd2b AS build
ENV GOTOOLCHAIN=go1.26.11
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY Makefile ./
COPY cmd cmd
COPY internal internal
COPY scripts/licenses scripts/licenses
ARG TARGETOS TARGETARCH RELEASE
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build RELEASE=$RELEASE OUTPUT=/out/
RUN mkdir /out/licenses && go run ./scripts/licenses -notices /out/licenses/THIRD-PARTY-NOTICES.txt \
    -program /out/loopgrid-mcp -sbom /out/licenses/loopgrid-mcp.cdx.json
# Evidence, and the lock that has writes take turns.
RUN install -d -m 0700 /out/writable/evidence && install -d -m 1777 /out/writable/tmp

FROM scratch
LABEL org.opencontainers.image.title="loopgrid-mcp" \
      org.opencontainers.image.description="Record what AI agents decide and do, and who approved it, as signed evidence in LoopGrid." \
      org.opencontainers.image.source="https://github.com/loopgridio/loopgrid-mcp" \
      org.opencontainers.image.licenses="Apache-2.0" \
      io.modelcontextprotocol.server.name="io.github.loopgridio/loopgrid-mcp"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/loopgrid-mcp /usr/local/bin/loopgrid-mcp
COPY LICENSE /licenses/
COPY --from=build /out/licenses/ /licenses/
# A new volume takes over whom the folder belongs to.
COPY --from=build --chown=65532:65532 /out/writable/ /
ENV LOOPGRID_EVIDENCE_DIR=/evidence
WORKDIR /evidence
VOLUME /evidence
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/loopgrid-mcp"]
