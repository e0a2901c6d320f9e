# time_rate.gp: requests per second that came to be due, were served, failed
#
# $rate: second, due, served, failed.

load 'time_phases.gp'
set ylabel "per second"
set yrange [0:*]
plot $rate using 1:2 with lines linecolor rgb muted dashtype (4,4) title "due", \
	 $rate using 1:3 with lines linecolor rgb first_class title "served", \
	 $rate using 1:($4 > 0 ? $4 : NaN) with impulses linecolor rgb limit title "failed"
