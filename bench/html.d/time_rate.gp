# time_rate.gp: requests per second, served, planned and failed
#
# $rate: second, served, planned, failed.

load 'time_phases.gp'
set ylabel "per second"
set yrange [0:*]
plot $rate using 1:2 with lines linecolor rgb first_class title "served", \
	 $rate using 1:3 with steps linecolor rgb muted dashtype (4,4) title "planned", \
	 $rate using 1:($4 > 0 ? $4 : NaN) with impulses linecolor rgb limit title "failed"
