# Unpacks the archive on standard input as folder $2 of the cache $1.
# `.complete` is its last file: a broken connection may leave an archive that looks whole.
set -e
umask 077
mkdir -p "$1"
part="$1/.$2.$$"
mkdir "$part"
trap "rm -rf \"$part\"" EXIT
tar -x -f - -C "$part"
test -e "$part/.complete"
test -e "$1/$2/.complete" || mv "$part" "$1/$2"
