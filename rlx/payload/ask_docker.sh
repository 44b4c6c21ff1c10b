#!/bin/sh
# Asks docker, and tells why it refused: goes before locate.sh and container.sh. POSIX sh.
DOCKER_S=20
NEWLINE='
'

# error KIND TEXT: the last line of an answer.
error() {
    printf 'error %s\n' "$*" | tr '\n' ' '
    printf '\n'
    exit 0
}

# A small busybox has none; then the caller waits no longer than for any answer.
command -v timeout >/dev/null || timeout() { shift && "$@"; }

ask() { LC_ALL=C timeout "$DOCKER_S" docker "$@" </dev/null; }

# refuse TEXT: what docker said.
refuse() {
    case $1 in
        *"ermission denied"*) error denied "$(id -un)" ;;
        *[Nn]"o such "*) error missing "$(ask ps --format '{{.Names}}' 2>/dev/null | sort)" ;;
        *"annot connect"* | *"daemon running"* | '') error down "$1" ;;
        *) error refused "$(printf '%s\n' "$1" | grep -m 1 rror || printf %s "${1##*"$NEWLINE"}")" ;;
    esac
}
