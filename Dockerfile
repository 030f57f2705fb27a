FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -tags codec.notfastpath -ldflags='-s -w' -o /switchboard ./cmd/switchboard

FROM scratch
COPY --from=build /switchboard /switchboard
USER 65534:65534
EXPOSE 8080
ENTRYPOINT ["/switchboard"]
CMD ["serve"]
