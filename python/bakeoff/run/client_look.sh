# Describes the host and says which folders of its cache are complete. One statement per line, no exclamation marks.
cache="${XDG_CACHE_HOME:-$HOME/.cache}/bakeoff/client"
say() { echo "bakeoff:$*"; }
say cache "$cache"
say connection "$SSH_CONNECTION"
say boot "$(cat /proc/sys/kernel/random/boot_id)"
say cpus "$(getconf _NPROCESSORS_ONLN)"
say model "$(sed -n "s/^model name[^:]*: *//p" /proc/cpuinfo | head -n 1)"
say memory_kib "$(sed -n "s/^MemTotal: *\([0-9]*\).*/\1/p" /proc/meminfo)"
for each in "$@"; do if test -e "$cache/$each/.complete"; then say "$each" there; fi; done
