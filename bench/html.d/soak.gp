# soak.gp: what must not grow, as a multiple of the second quarter's median
#
# $samples: second, memory of a backend, bytes per event, connections, and
# dead rows.

set xlabel "seconds since the traffic began"
set ylabel "multiple"
set yrange [0:*]
set xrange [0:*]
plot $samples using 1:2 with lines linecolor rgb first_class title "memory of a backend", \
	 $samples using 1:3 with lines linecolor rgb second_class title "bytes per event", \
	 $samples using 1:4 with lines linecolor rgb good title "connections", \
	 $samples using 1:5 with lines linecolor rgb muted dashtype (4,4) title "dead rows"
