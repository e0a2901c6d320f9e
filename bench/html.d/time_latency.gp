# time_latency.gp: latency over time, p50 to p99 as a band and p95 as a line
#
# $series: second, and per class p50, p95, p99.

load 'time_phases.gp'
set ylabel "ms"
set logscale y
plot for [i = 1:classes] $series using 1:3 * i - 1:3 * i + 1 with filledcurves \
		fillcolor rgb class_colour[i] fillstyle transparent solid 0.18 noborder \
		title class_name[i] . " p50 to p99", \
	 for [i = 1:classes] $series using 1:3 * i with lines \
		linecolor rgb class_colour[i] title class_name[i] . " p95"
