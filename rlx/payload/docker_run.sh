#!/bin/sh
# shellcheck disable=SC2034 # used by the scripts that this is put in front of
# What rlx's containers have in common: goes behind ask_docker.sh, before container.sh and into supervise.sh. POSIX sh.
LIMITS='--ulimit=memlock=-1:-1 --ulimit=nofile=65536:65536'

# find_image IMAGE: in image_id, its id. Prints that and its digests. Nothing is fetched.
find_image() {
    command -v docker >/dev/null || error no-docker
    if image_id=$(ask image inspect -f '{{.Id}}' "$1" 2>&1); then
        printf 'image_id %s\n' "$image_id"
        ask image inspect -f '{{range .RepoDigests}}digest {{.}}{{"\n"}}{{end}}' "$1"
        return
    fi
    case $image_id in
        *[Nn]"o such image"*) error no-image "$(ask images --format '{{.Repository}}:{{.Tag}}' 2>/dev/null | sort -u)" ;;
        *) refuse "$image_id" ;;
    esac
}

# check_mounts MOUNT…: docker would make a missing one, as root.
check_mounts() {
    for mount in "$@"; do
        [ -e "${mount%%:*}" ] || error no-mount "${mount%%:*}"
    done
}

# with_host COMMAND…: with what a container needs of its host as further words, whatever its devices are.
with_host() {
    # Ray and the loaders of data share memory, processes of runs leave orphans, and nodes must reach each other.
    set -- "$@" "--shm-size=$(awk '/^MemTotal:/ { printf "%dk", $2 / 2 }' /proc/meminfo)" --init --network=host
    # What Ascend's driver needs in a container, as CANN's and vLLM-Ascend's guides give it to docker run.
    for device in /dev/davinci_manager /dev/devmm_svm /dev/hisi_hdc; do
        [ ! -e "$device" ] || set -- "$@" "--device=$device"
    done
    for driver in /usr/local/Ascend/driver /usr/local/dcmi /usr/local/bin/npu-smi /etc/ascend_install.info /etc/hccn.conf; do
        [ ! -e "$driver" ] || set -- "$@" "--volume=$driver:$driver:ro"
    done
    # Its devices belong to a group, which a user other than root must be in.
    group=$(stat -c %g /dev/davinci_manager 2>/dev/null) || group=0
    [ "$group" = 0 ] || set -- "$@" "--group-add=$group"
    "$@"
}
