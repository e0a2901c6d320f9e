# capacity_rate.gp: what each stage was asked for and what it served
#
# $stages: planned, served.  knee and over: the highest sustained rate and the
# first that was not, or NaN.

load 'capacity_marks.gp'
set ylabel "served per second"
set yrange [0:*]
plot $stages using 1:1 with lines linecolor rgb muted dashtype (4,4) title "planned", \
	 $stages using 1:2 with linespoints linecolor rgb first_class pointtype 7 pointsize 0.6 title "served"
