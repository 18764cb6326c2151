"""One plan, two runners: ``live`` makes a flow of it, ``spark`` DataFrames."""
