#!/bin/sh
# Refuses a base image that is not named by digest: a tag may be another image tomorrow, a digest never is. The recipe runs this
# first; run it by itself to check a name: deploy/check-base.sh NAME@sha256:DIGEST
set -eu

base=${1-}
digest=${base#*@sha256:}
name=${base%%@*}

refuse() {
    echo "PYTHON: '$base' does not name a base image by digest: expected NAME@sha256:<64 hexadecimal digits>" >&2
    echo "look one up as docs/production.md says, and give it with --build-arg PYTHON=NAME@sha256:…" >&2
    exit 1
}

[ "$base" = "$name@sha256:$digest" ] && [ -n "$name" ] && [ ${#digest} -eq 64 ] || refuse
case $name$digest in *[!A-Za-z0-9._:/-]*) refuse ;; esac
case $digest in *[!0-9a-f]*) refuse ;; esac
