# A bare Debian 12 that can build Mailgrad and run its tests:
#
#   docker build -t mailgrad .
#   docker run --rm --security-opt seccomp=unconfined mailgrad
#
# ThreadSanitizer wants addresses that are not randomised, which the default seccomp profile forbids to ask for.
FROM debian:12
WORKDIR /mailgrad
COPY . .
RUN scripts/install-dependencies
CMD ["scripts/test"]
