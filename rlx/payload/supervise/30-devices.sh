# ---- devices -------------------------------------------------------------------------------------------------------
# Which devices a run may have, and how it is to call them.

# find_numbers KIND: in NUMBERS, those that this host, or this container, has of it.
find_numbers() {
    NUMBERS=
    case $1 in
        cpu) NUMBERS=0 && return ;;
        cuda) set -- /dev/nvidia ;;
        npu) set -- /dev/davinci ;;
        *) return ;;
    esac
    NUMBERS=$(for file in "$1"[0-9]*; do
        [ ! -e "$file" ] || printf '%s\n' "${file#"$1"}"
    done | sort -n | tr '\n' ' ')
    NUMBERS=${NUMBERS% }
}

# The numbers that a run may have: its container may see some of the host's only. `devices` keeps what it sees, so that
# a holder need not ask.
find_own_numbers() {
    find_numbers "$kind"
    [ -e "$1/$DEVICES_FILE" ] || return 0
    { read -r visible; } <"$1/$DEVICES_FILE"
    found=
    for number in $NUMBERS; do
        case " $visible " in *" $number "*) found="$found $number" ;; esac
    done
    NUMBERS=${found# }
}

# note_visible RUN: the devices that its container sees, into `devices`. Asked once for all runs of a launch.
note_visible() {
    [ "$kind" != cpu ] && [ -n "$container" ] || return 0
    case $VISIBLE in
        "$kind:"*) ;;
        *)
            nodes=$(timeout "$DOCKER_S" docker exec "$container" sh -c 'cd /dev && ls' </dev/null) ||
                fail "cannot look for $kind devices in the container"
            prefix=davinci
            [ "$kind" = npu ] || prefix=nvidia
            VISIBLE="$kind:$(printf '%s\n' "$nodes" | sed -n "s/^$prefix\([0-9][0-9]*\)\$/\1/p" | sort -n | tr '\n' ' ')"
            ;;
    esac
    put "$1/$DEVICES_FILE" "${VISIBLE#*:}" || fail "cannot write to $1"
}

# positions: the leased devices as the run must call them, comma-separated. CANN and CUDA number the devices that a
# process sees from 0, in the order of their nodes: in a container with davinci2 and davinci3, NPU 3 is device 1. This
# follows their documentation; it could not be tried on an NPU.
positions() {
    [ -e "$run/$DEVICES_FILE" ] || { printf %s "$devices" | tr ' ' ',' && return; }
    { read -r visible; } <"$run/$DEVICES_FILE"
    position=0 named=
    for number in $visible; do
        case " $devices " in *" $number "*) named=$named,$position ;; esac
        position=$((position + 1))
    done
    printf %s "${named#,}"
}

# check_wanted: enough of them, or the very ones, are there.
check_wanted() {
    here="this host has"
    [ ! -e "$1/$DEVICES_FILE" ] || here="the container has"
    case $wanted in
        =*)
            for number in $(printf %s "${wanted#=}" | tr ',' ' '); do
                case " $NUMBERS " in
                    *" $number "*) ;;
                    *) fail "there is no $kind device $number: $here ${NUMBERS:-none}" ;;
                esac
            done
            ;;
        *)
            # shellcheck disable=SC2086 # counting words is the point
            set -- $NUMBERS
            [ $# -ge "$wanted" ] || fail "the run needs $wanted $kind device(s), $here $#"
            ;;
    esac
}

# prepare_leases RUN
prepare_leases() {
    note_visible "$1"
    find_own_numbers "$1"
    check_wanted "$1"
    open_folder "$leases"
    check_locks
    open_folder "$leases/tickets"
    open_folder "$leases/devices"
    for number in $NUMBERS; do open_folder "$leases/devices/$kind.$number"; done
}

open_folder() {
    # shellcheck disable=SC2174 # the folders above it exist, or belong to this user alone
    [ -d "$1" ] || mkdir -p -m 1777 "$1" || [ -d "$1" ] || fail "cannot create the lease folder $1"
    # mkdir sets the mode after it has made the folder: another user may be in between.
    for _ in 1 2; do
        if [ -w "$1" ] && is_sticky "$1"; then break; fi
        sleep 1
    done
    [ -w "$1" ] || fail "the lease folder $1 is not writable"
    # Whose link it is could lead everybody else elsewhere.
    [ "$1" = "$leases" ] || [ ! -L "$1" ] || fail "$1 in the lease folder is a link, made by $(stat -c %U "$1"): remove it"
    is_sticky "$1" || fail "the lease folder $1 lets anybody remove the claims of others: $(stat -c %U "$1") may chmod 1777 it"
}

# is_sticky FOLDER: only the owner of a file in it, or of the folder, can remove the file.
is_sticky() {
    # shellcheck disable=SC3065 # dash and busybox have it
    [ -k "$1" ] && return
    case $(stat -c %A "$1") in ?????w???? | ????????w?) return 1 ;; esac
}

# check_locks: flock works there. Without it, every query would report a held lock.
check_locks() {
    flock -n -E "$CONFLICT" 6 6<"$leases" 2>/dev/null
    case $? in
        0 | "$CONFLICT") ;;
        *) fail "the lease folder $leases cannot be locked: its file system ($(stat -f -c %T "$leases")) knows no flock; name another one (leases: in hosts.yaml)" ;;
    esac
}
