-- A workshop: orders from Kafka, a graph of nodes with loops that keeps the stock, movements and purchases in the database.
-- Where broker and database are, the configuration says or the environment:
--   ROWTIDE_SERVERS__BROKER__BOOTSTRAP_SERVERS, ROWTIDE_SERVERS__DB__URL

CREATE SERVER broker FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:9092');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///workshop.db');

CREATE FOREIGN STREAM orders (
  item VARCHAR(20) NOT NULL,
  pieces BIGINT NOT NULL
) SERVER broker OPTIONS (topic 'orders', format 'JSON');

CREATE MODEL workshop AS 'workshop:Workshop' OPTIONS (least '40', delivery_ms '7200000');
CREATE PUMP orders_to_workshop AS
  INSERT INTO workshop.orders SELECT STREAM item, pieces FROM orders;

-- Every change of the stock, in order.
CREATE FOREIGN TABLE movements (
  moved_at TIMESTAMP,
  item VARCHAR(20),
  why VARCHAR(10),
  pieces BIGINT,
  level BIGINT
) SERVER db;
CREATE PUMP stock_to_movements AS
  INSERT INTO movements SELECT STREAM ROWTIME, item, why, pieces, level FROM workshop.stock;

-- How much there is of each item now.
CREATE FOREIGN TABLE levels (item VARCHAR(20), level BIGINT, PRIMARY KEY (item)) SERVER db;
CREATE PUMP stock_to_levels AS
  INSERT INTO levels SELECT STREAM item, level FROM workshop.stock WHERE why <> 'made';

CREATE FOREIGN TABLE purchases (bought_at TIMESTAMP, item VARCHAR(20), pieces BIGINT, level BIGINT) SERVER db;
CREATE PUMP buyer_to_purchases AS
  INSERT INTO purchases SELECT STREAM ROWTIME, item, pieces, level FROM workshop.buyer;

CREATE FOREIGN TABLE notes (noted_at TIMESTAMP, item VARCHAR(20), note VARCHAR(60)) SERVER db;
CREATE PUMP slow_to_notes AS
  INSERT INTO notes SELECT STREAM ROWTIME, item, note FROM workshop.slow;
