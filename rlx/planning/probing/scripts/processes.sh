# Zombies by parent, and the raylets with their users. The name in /proc/PID/stat may hold spaces and brackets.
# shellcheck disable=SC2016  # awk's own variables
cat /proc/[0-9]*/stat 2>/dev/null | awk '
    {
        rest = $0; sub(/^.*\) /, "", rest); split(rest, field, " ")
        name = $0; sub(/^[0-9]+ \(/, "", name); sub(/\) [A-Za-z] -?[0-9].*$/, "", name)
        names[$1] = name
        total++
        if (field[1] == "Z") zombies[field[2]]++
        if (name == "raylet") print "raylet " $1
    }
    END {
        print "total " total
        for (parent in zombies) print "zombies " zombies[parent] " " parent " " names[parent]
    }' | while read -r word value rest; do
    [ "$word" != raylet ] || rest=$(stat -c %U "/proc/$value" 2>/dev/null)
    printf '%s %s %s\n' "$word" "$value" "$rest"
done
printf 'init %s\n' "$(tr '\0' ' ' </proc/1/cmdline 2>/dev/null)"
