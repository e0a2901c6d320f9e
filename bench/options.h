/*-------------------------------------------------------------------------
 *
 * options.h
 *	  What the run was told to do.
 *
 * IDENTIFICATION
 *	  bench/options.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef OPTIONS_H
#define OPTIONS_H

/* An option that a command knows, and its default there. */
typedef struct OptionDefault
{
	const char *name;
	const char *value;
} OptionDefault;

extern bool options_read(int argc, char **argv, const OptionDefault *defaults,
						 int arguments);
extern void option_default(const char *name, const char *value);
extern const char *option_text(const char *name);
extern int	option_integer(const char *name);
extern double option_decimal(const char *name);
extern bool option_switch(const char *name);
extern bool option_given(const char *name);
extern const char *option_argument(int n);
extern void options_help(const OptionDefault *defaults);
extern void options_each(void (*visit) (const char *name, const char *value));

#endif							/* OPTIONS_H */
