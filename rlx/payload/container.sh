#!/bin/sh
# Makes the container of an image, or finds the one that was made before. Runs on its host. POSIX sh.
#
#   container.sh NAME IMAGE ROOT KEEP USER MAIN [SOURCE:DESTINATION[:ro]...]
#
#   ROOT  where runs live; mounted under its own name
#   KEEP  `keep`, or `remove`: it ends some minutes after its last run, and docker removes it
#   USER  as `docker run` takes it; empty for the image's own
#   MAIN  the script of its first process (container_main.sh)
#
# ask_docker.sh and docker_run.sh go before it. Prints `<key> <value>` lines. `error <kind> <text>` ends them;
# hosts/containers/container_errors.py has the words for each kind. Nothing is fetched, and no container is touched but
# the one that is made here.
# shellcheck disable=SC2153,SC2154 # set by the scripts in front of it
set -u
umask 077
RUN_S=120
# Another launch may be making it, or docker removing it: as many looks, a fifth of a second apart.
LOOKS=100
# Its creator was interrupted before the start, and it may have limits that the host forbids.
CREATED_LOOKS=50
FORMAT='{{.Id}} {{.State.Status}} {{.Image}} {{index .Config.Labels "rlx.uid"}} {{index .Config.Labels "rlx.root"}}'

# The folder exists and is this user's own from here on; without symbolic links, as docker needs it.
find_root() {
    # shellcheck disable=SC2088 # the tilde is text here
    case $root in '~' | '~/'*) root=$HOME${root#'~'} ;; esac
    { mkdir -p "$root" && root=$(cd -P -- "$root" && pwd -P); } 2>/dev/null || error no-root "$root"
}

# Looks and acts until it runs. `$@`: the options of docker run.
bring_up() {
    looks=0
    until is_up "$@"; do
        looks=$((looks + 1))
        [ "$looks" -lt "$LOOKS" ] || error stuck "${status:-not to be made}"
        sleep 0.2
    done
}

is_up() {
    seen=$(ask inspect --type container -f "$FORMAT" "$name" 2>&1) || {
        case $seen in *[Nn]"o such"*) make "$@" && return ;; *) refuse "$seen" ;; esac
        return 1
    }
    IFS=' ' read -r id status its_image its_user its_root <<END
$seen
END
    check_ours
    case $status in
        running) keep_awake || return ;;
        paused) error state paused ;;
        exited) said=$(ask start "$name" 2>&1) || refuse "$said" ;;
        created) [ "$looks" -lt "$CREATED_LOOKS" ] || ask rm "$id" >/dev/null 2>&1 ;;
    esac
    [ "$status" = running ]
}

check_ours() {
    [ "$its_user" = "$(id -u)" ] || error foreign "$name"
    [ "$its_image" = "$image_id" ] || error moved "$its_image"
    [ "$its_root" = "$root" ] || error other-root "$its_root"
}

# One that is removed after its last run shall wait for the one that comes now. It may just be ending.
keep_awake() {
    [ "$keep" = keep ] || ask exec "$id" sh -c ': >/tmp/.rlx-wanted' >/dev/null 2>&1
}

make() {
    rm -f "$work/id"
    # shellcheck disable=SC2086 # two options, or none
    said=$(LC_ALL=C timeout "$RUN_S" docker run --detach --cidfile="$work/id" $limits "$@" \
        --entrypoint=sh "$image" -c "$main" rlx-container "$keep" "$root" </dev/null 2>&1) && {
        id=$(cat "$work/id") made=yes
        return 0
    }
    # Docker leaves what it could create and not start.
    [ ! -s "$work/id" ] || ask rm "$(cat "$work/id")" >/dev/null 2>&1
    case $said in
        *"already in use by container"*) ;;
        # The host forbids them; rlx doctor says what that costs.
        *rlimit*) [ -n "$limits" ] || refuse "$said" && limits='' ;;
        *) refuse "$said" ;;
    esac
    return 1
}

name=$1 image=$2 root=$3 keep=$4 user=$5 main=$6
shift 6
find_image "$image"
find_root
check_mounts "$@"
work=$(mktemp -d) || error refused "cannot write to ${TMPDIR:-/tmp}"
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT PIPE TERM

made=no limits=$LIMITS
count=$#
for mount in "$@"; do set -- "$@" "--volume=$mount"; done
shift "$count"
set -- "$@" "--name=$name" "--label=rlx.uid=$(id -u)" "--label=rlx.root=$root" "--volume=$root:$root"
[ "$keep" = keep ] || set -- "$@" --rm
[ -z "$user" ] || set -- "$@" "--user=$user"
for device in /dev/davinci[0-9]*; do
    [ ! -e "$device" ] || set -- "$@" "--device=$device"
done
[ ! -e /dev/nvidiactl ] || set -- "$@" --gpus=all
with_host bring_up "$@"
printf 'id %s\nroot %s\nmade %s\n' "$id" "$root" "$made"
