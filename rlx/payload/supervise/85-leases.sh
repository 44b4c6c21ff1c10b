# ---- leases --------------------------------------------------------------------------------------------------------
# A line each: `now <time>` by this host's clock, which each <time> goes by, `device <kind>.<n> locked|free`,
# `claim <kind>.<n> live|dead|unknown <user> <time> <container> <run directory>`,
# `ticket <number> <kind> <user> <time> <container> <run directory>`, `wish <number> <kind> <count> <device>…` of a ticket that
# says so, `foreign <kind>.<n> <pid>`.

leases() {
    FOREIGN_S=$REPORT_FOREIGN_S
    date '+now %s'
    for device in "$1/devices/"*.*; do
        [ -d "$device" ] || continue
        regular "${device##*/}" || continue
        state=free
        if locked "$device"; then state=locked; fi
        printf 'device %s %s\n' "${device##*/}" "$state"
        is_claimed=
        for claim in "$device"/*; do [ ! -f "$claim" ] || tell_claim; done
        # A program that locks it without a record knows nothing of runs.
        if [ "$state" = locked ] && [ -z "$is_claimed" ]; then
            held_by "$device"
            [ -z "$CULPRIT_PID" ] || printf 'foreign %s %s\n' "${device##*/}" "$CULPRIT_PID"
        fi
    done
    for other in "$1/tickets/"*; do
        name=${other##*/}
        if [ -f "$other" ] && regular "${name#*.}.${name%%.*}" && locked "$other"; then tell_ticket; fi
    done
    for kind in npu cuda; do
        find_foreign "$kind"
        [ -z "$FOREIGN" ] || printf '%s\n' "$FOREIGN" | sed "s/^/foreign $kind./"
    done
}

# regular NAME: `<kind>.<number>`, and no line of its own.
regular() {
    case $1 in *[!a-z0-9.]* | .* | *. | *.*.* | *.*[!0-9]*) return 1 ;; esac
}

tell_claim() {
    life=dead
    if claim_alive; then life=live; elif another "$boot" "$written_on" "$table" || ! own "$CLAIMED"; then life=unknown; fi
    [ -n "$CLAIMED" ] && owner=$(owner_of "$claim" "$CLAIMED") || return 0
    [ "$life" = dead ] || is_claimed=1
    printf 'claim %s %s %s\n' "${device##*/}" "$life" "$owner"
}

# A ticket has three lines: the holder's process, its run, and what that wants.
tell_ticket() {
    { read -r _ && read -r claimed; } 2>/dev/null <"$other" || claimed='?'
    owner=$(owner_of "$other" "$claimed") || return 0
    printf 'ticket %s %s %s\n' "${name%%.*}" "${name#*.}" "$owner"
    if read_wish "$other"; then printf 'wish %s %s %s\n' "${name%%.*}" "${name#*.}" "$COUNT $COULD"; fi
}

# owner_of FILE RUN: whose file it is, since when, in which container the run is, and its directory. Fails if it is gone.
owner_of() {
    of=$(stat -c '%U %Y' "$1" 2>/dev/null) || return 1
    CONTAINER=-
    own "$2" && contained "$2" 2>/dev/null
    printf '%s %s %s' "$of" "$CONTAINER" "$2"
}
