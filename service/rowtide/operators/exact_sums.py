"""How kernels add up exactly.

A sum of doubles has ``WORDS`` words of 64 bits in two's complement, of which the
lowest bit is worth 2**LOWEST: doubles below 2**HIGHEST that are whole numbers of
2**LOWEST are added without rounding, 2**31 of them at least, and a result is
rounded once. What does not fit is the plain Python path's.
"""

WORDS = 4
LOWEST = -112
HIGHEST = 110
