# First process of a container: ends the server when standard input ends, or on SIGTERM, and exits with its status.
exec 3<&0
"$@" </dev/null &
server=$!
trap 'kill -TERM $server' TERM
{ cat <&3 >/dev/null; kill -KILL $server; } 2>/dev/null &
while :; do wait $server; status=$?; kill -0 $server 2>/dev/null || exit $status; done
