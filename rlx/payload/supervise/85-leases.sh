# ---- leases --------------------------------------------------------------------------------------------------------
# A line each: `device <kind>.<n> locked|free`, `claim <kind>.<n> live|dead|unknown <user> <time> <container> <run directory>`,
# `ticket <number> <kind> <user> <time> <container> <run directory>`, `foreign <kind>.<n> <pid>`.

leases() {
    for device in "$1/devices/"*.*; do
        [ -d "$device" ] || continue
        state=free
        if locked "$device"; then state=locked; fi
        printf 'device %s %s\n' "${device##*/}" "$state"
        for claim in "$device"/*; do [ ! -f "$claim" ] || tell_claim; done
    done
    for other in "$1/tickets/"*; do
        if [ -f "$other" ] && locked "$other"; then tell_ticket; fi
    done
    for kind in npu cuda; do
        find_foreign "$kind"
        [ -z "$FOREIGN" ] || printf '%s\n' "$FOREIGN" | sed "s/^/foreign $kind./"
    done
}

tell_claim() {
    { read -r _ _ _ claimed <"$claim"; } 2>/dev/null || return 0
    life=dead
    if alive "$claim"; then
        life=live
    elif [ ! -d "$claimed" ]; then
        life=unknown
    elif run_alive "$claimed"; then
        life=live
    fi
    printf 'claim %s %s %s\n' "${device##*/}" "$life" "$(owner_of "$claim" "$claimed")"
}

# A ticket has two lines: the holder's process, and its run.
tell_ticket() {
    { read -r _ && read -r claimed; } 2>/dev/null <"$other" || return 0
    name=${other##*/}
    printf 'ticket %s %s %s\n' "${name%%.*}" "${name#*.}" "$(owner_of "$other" "$claimed")"
}

# owner_of FILE RUN: whose file it is, since when, in which container the run is, and its directory.
owner_of() {
    CONTAINER=-
    contained "$2" 2>/dev/null
    printf '%s %s %s' "$(stat -c '%U %Y' "$1")" "$CONTAINER" "$2"
}
