-- Traffic accounting: packets from Kafka, a model that adds them up, hourly and daily sums in the database.
-- Where broker and database are, the configuration says or the environment:
--   ROWTIDE_SERVERS__BROKER__BOOTSTRAP_SERVERS, ROWTIDE_SERVERS__DB__URL

CREATE SERVER broker FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:9092');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///traffic.db');

CREATE FOREIGN STREAM packets (
  at TIMESTAMP NOT NULL,
  local_ip VARCHAR(45) NOT NULL,
  remote_ip VARCHAR(45) NOT NULL,
  bytes BIGINT NOT NULL
) SERVER broker OPTIONS (topic 'packets', format 'JSON');

CREATE VIEW in_order AS
  SELECT STREAM at AS ROWTIME, local_ip, remote_ip, bytes
  FROM packets ORDER BY at WITHIN INTERVAL '10' SECOND;

CREATE MODEL traffic AS 'traffic:Traffic' OPTIONS (least_bytes '100');
CREATE PUMP packets_to_traffic AS
  INSERT INTO traffic.packets SELECT STREAM local_ip, remote_ip, bytes FROM in_order;

-- What an hour has so far: its row is replaced whenever a commit finds more.
CREATE FOREIGN TABLE hourly_traffic (
  traffic_hour TIMESTAMP,
  local_ip VARCHAR(45),
  remote_ip VARCHAR(45),
  bytes BIGINT,
  PRIMARY KEY (traffic_hour, local_ip, remote_ip)
) SERVER db;
CREATE PUMP hours AS INSERT INTO hourly_traffic SELECT STREAM * FROM traffic.hourly;

-- A day comes when it is over.
CREATE FOREIGN TABLE daily_traffic (
  traffic_day DATE,
  local_ip VARCHAR(45),
  bytes BIGINT,
  PRIMARY KEY (traffic_day, local_ip)
) SERVER db;
CREATE PUMP days AS INSERT INTO daily_traffic SELECT STREAM * FROM traffic.daily;
