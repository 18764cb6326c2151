-- Departures of New York's three airports in 2013, hour by hour, with the weather that was.

CREATE SERVER broker FOREIGN DATA WRAPPER KAFKA;
CREATE SERVER results FOREIGN DATA WRAPPER RDBMS;

-- A flight is reported when it leaves (or, if it was cancelled, when it should have left).
CREATE FOREIGN STREAM flights (
  scheduled_at TIMESTAMP NOT NULL,
  origin       VARCHAR(3) NOT NULL,
  dest         VARCHAR(3),
  carrier      VARCHAR(2),
  flight       INTEGER,
  dep_delay    INTEGER          -- minutes; NULL: cancelled
) SERVER broker OPTIONS (topic 'flights', format 'JSON');

CREATE FOREIGN STREAM weather (
  origin     VARCHAR(3) NOT NULL,
  temp       DOUBLE,
  wind_speed DOUBLE,
  visib      DOUBLE
) SERVER broker OPTIONS (topic 'weather', format 'JSON');

-- The last weather report of each airport: an engine table.
CREATE TABLE current_weather (
  origin     VARCHAR(3) NOT NULL,
  wind_speed DOUBLE,
  visib      DOUBLE,
  PRIMARY KEY (origin)
);
CREATE PUMP reports STARTED AS
  INSERT INTO current_weather SELECT STREAM origin, wind_speed, visib FROM weather;

-- The scheduled time becomes the time of the row; flights more than three hours late
-- miss it and go to the error stream, with everything needed to take them up again.
CREATE VIEW departures AS
  SELECT STREAM scheduled_at AS ROWTIME, origin, dest, dep_delay
  FROM flights
  ORDER BY scheduled_at WITHIN INTERVAL '3' HOUR;

-- Each flight with the weather as of its scheduled time.
CREATE VIEW departures_in_weather AS
  SELECT STREAM d.origin, d.dep_delay, w.wind_speed, w.visib
  FROM departures AS d
  JOIN current_weather AS w ON d.origin = w.origin;

CREATE VIEW hourly AS
  SELECT STREAM FLOOR(f.ROWTIME TO HOUR) AS hour_start, origin,
         COUNT(*) AS flights, COUNT(dep_delay) AS departed,
         AVG(dep_delay) AS mean_delay, MAX(dep_delay) AS worst_delay,
         MAX(wind_speed) AS wind, MIN(visib) AS visibility
  FROM departures_in_weather AS f
  GROUP BY FLOOR(f.ROWTIME TO HOUR), origin;

CREATE FOREIGN TABLE hourly_departures (
  hour_start  TIMESTAMP NOT NULL,
  origin      VARCHAR(3) NOT NULL,
  flights     BIGINT,
  departed    BIGINT,
  mean_delay  DECIMAL(38, 6),
  worst_delay INTEGER,
  wind        DOUBLE,
  visibility  DOUBLE,
  PRIMARY KEY (hour_start, origin)
) SERVER results;

CREATE PUMP write_hourly STARTED AS
  INSERT INTO hourly_departures
  SELECT STREAM hour_start, origin, flights, departed, mean_delay, worst_delay, wind, visibility FROM hourly;
