# PROGRAM ADDRESS: what the dashboard of a Ray cluster says of it, without submitting anything.
for python in python3 python; do
    "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || continue
    exec "$python" -I -S -c "$1" look "$2" 2>&1
done
echo "there is no Python 3.8 or later on the PATH of a command over ssh"
