# snapshot.gp: how long it takes to read a stream, by its length
#
# $lengths: events, then p50 of each way to read.  ways: their number;
# way_name: what they are called.

set xlabel "events in the stream"
set ylabel "p50, ms"
set logscale xy
array way_colour[4] = [limit, first_class, good, muted]
plot for [i = 1:ways] $lengths using 1:i + 1 with linespoints \
		linecolor rgb way_colour[i] pointtype 7 pointsize 0.6 title way_name[i]
