# percentiles.gp: latency of each phase and class, from the median to the slowest
#
# $phases: place, name, and per class p50, p95, p99, p99.9, max.

set ylabel "ms"
set logscale y
set xrange [0.5 : phases + 0.5]
set grid noxtics
if (phases > 12) { set xtics rotate by -35 }
at(i) = classes == 1 ? 0 : (i - 1.5) * 0.24
figure(i, percentile) = column(2 + (i - 1) * 5 + percentile)
plot for [i = 1:classes] $phases using ($1 + at(i)):(figure(i, 1)):(0):(figure(i, 5) - figure(i, 1)) \
		with vectors nohead linecolor rgb class_colour[i] linewidth 0.7 title class_name[i], \
	 for [i = 1:classes] $phases using ($1 + at(i)):(figure(i, 1)) \
		with points linecolor rgb class_colour[i] pointtype 7 pointsize 0.8 notitle, \
	 for [i = 1:classes] $phases using ($1 + at(i)):(figure(i, 2)) \
		with points linecolor rgb class_colour[i] pointtype 5 pointsize 0.8 notitle, \
	 for [i = 1:classes] $phases using ($1 + at(i)):(figure(i, 3)) \
		with points linecolor rgb class_colour[i] pointtype 9 pointsize 0.9 notitle, \
	 for [i = 1:classes] $phases using ($1 + at(i)):(figure(i, 4)) \
		with points linecolor rgb class_colour[i] pointtype 4 pointsize 0.8 notitle, \
	 $phases using 1:(NaN):xtic(2) with points notitle, \
	 NaN with points linecolor rgb muted pointtype 7 title "p50", \
	 NaN with points linecolor rgb muted pointtype 5 title "p95", \
	 NaN with points linecolor rgb muted pointtype 9 title "p99", \
	 NaN with points linecolor rgb muted pointtype 4 title "p99.9"
