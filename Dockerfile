# The program alone, with the certificates that https needs. It serves MCP on stdin and stdout: docker run -i --rm.
ARG GO_VERSION=1.26.10

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY cmd cmd
COPY internal internal
COPY scripts/licenses scripts/licenses
ARG TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -tags nethttpomithttp2 -ldflags "-s -w" -o /out/loopgrid-mcp ./cmd/loopgrid-mcp
RUN mkdir -p /out/licenses && go run ./scripts/licenses -notices /out/licenses/THIRD-PARTY-NOTICES.txt
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
