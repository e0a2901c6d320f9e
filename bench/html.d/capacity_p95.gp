# capacity_p95.gp: p95 of each stage against the objectives
#
# $stages: planned, served, p95 of the first and of the second class.

load 'capacity_marks.gp'
set ylabel "p95, ms"
set logscale y
plot for [i = 1:classes] $stages using 1:i + 2 with linespoints \
		linecolor rgb class_colour[i] pointtype 7 pointsize 0.6 title class_name[i], \
	 for [i = 1:classes] objective[i] with lines linecolor rgb class_colour[i] \
		dashtype (4,4) title class_name[i] . " objective"
