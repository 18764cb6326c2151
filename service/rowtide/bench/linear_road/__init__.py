"""Linear Road: variable tolls on expressways, in our SQL."""
