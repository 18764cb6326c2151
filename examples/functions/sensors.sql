-- Functions in Python and in SQL: sensors from Kafka, graded, into the database. A template to copy.
--   rowtide check examples/functions/sensors.sql
--   rowtide test examples/functions
-- Where broker and database are, the configuration says or the environment:
--   ROWTIDE_SERVERS__BROKER__BOOTSTRAP_SERVERS, ROWTIDE_SERVERS__DB__URL

CREATE SERVER broker FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:9092');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///sensors.db');

-- Called for each row, also with NULL (None).
CREATE FUNCTION grade(share DECIMAL(5, 4)) RETURNS VARCHAR(7) LANGUAGE PYTHON AS 'sensors.grade';
-- Called with NumPy arrays of many rows, without those that have a NULL.
CREATE FUNCTION dew_point(celsius DOUBLE, humidity DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON
  RETURNS NULL ON NULL INPUT OPTIONS (form 'numpy') AS 'sensors.dew_point';
-- A class: its state is that of the rows of a group, in their order.
CREATE AGGREGATE FUNCTION swing(x DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'sensors.Swing';
-- An expression with a name.
CREATE FUNCTION celsius(fahrenheit DOUBLE) RETURNS DOUBLE RETURN (fahrenheit - 32) / 1.8;

CREATE FOREIGN STREAM readings (
  sensor VARCHAR(20) NOT NULL,
  fahrenheit DOUBLE,
  humidity DOUBLE,
  battery DECIMAL(5, 4)
) SERVER broker OPTIONS (topic 'readings', format 'JSON');

CREATE FOREIGN TABLE climate (
  at TIMESTAMP,
  sensor VARCHAR(20),
  dew_point DOUBLE,
  battery VARCHAR(7),
  PRIMARY KEY (at, sensor)
) SERVER db;
CREATE VIEW graded AS
  SELECT STREAM ROWTIME AS at, sensor, ROUND(dew_point(celsius(fahrenheit), humidity), 2) AS dew_point, grade(battery) AS battery
  FROM readings;
CREATE PUMP to_climate AS INSERT INTO climate SELECT STREAM * FROM graded;

CREATE FOREIGN TABLE swings (
  at TIMESTAMP,
  sensor VARCHAR(20),
  swing DOUBLE,
  PRIMARY KEY (at, sensor)
) SERVER db;
CREATE VIEW by_minute AS
  SELECT STREAM FLOOR(readings.ROWTIME TO MINUTE) AS at, sensor, ROUND(swing(celsius(fahrenheit)), 2) AS swing
  FROM readings GROUP BY FLOOR(readings.ROWTIME TO MINUTE), sensor;
CREATE PUMP to_swings AS INSERT INTO swings SELECT STREAM * FROM by_minute;
