# common.gp: what all charts of the HTML report share
#
# bench/html sets height, defines the data blocks, and loads this and a
# chart.  It turns the colours below, which nobody sees, into the CSS
# variables --c1 and so on, so that a chart follows the reader's choice of
# light or dark.

set terminal svg size 760,height dynamic font "sans-serif,12" linewidth 1.5 noenhanced
set encoding utf8

first_class = 0x000001		# reads or appends
second_class = 0x000002		# deposits or loads
limit = 0x000003			# objectives, failures
good = 0x000004				# the knee
faint = 0x000005			# grid and frames
muted = 0x000006			# plans and notes
array class_colour[2] = [first_class, second_class]

set border 3 linecolor rgb faint
set tics nomirror scale 0.5 textcolor rgb muted
set grid ytics linecolor rgb faint linewidth 0.5 dashtype solid
set key at graph 0, screen 0.985 left top horizontal Left reverse samplen 2 \
	maxrows 1 width 1 textcolor rgb muted
set xlabel textcolor rgb muted
set ylabel textcolor rgb muted
set tmargin 2.5
set rmargin 3
set lmargin 10

set format y "%g"
