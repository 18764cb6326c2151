-- What the generator gives, in any order of the last four seconds.
CREATE STREAM person_in (id BIGINT, name VARCHAR, email_address VARCHAR, credit_card VARCHAR, city VARCHAR,
  state VARCHAR, date_time TIMESTAMP);
CREATE STREAM auction_in (id BIGINT, item_name VARCHAR, description VARCHAR, initial_bid BIGINT, reserve BIGINT,
  date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT);
CREATE STREAM bid_in (auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR,
  date_time TIMESTAMP, extra VARCHAR);
CREATE VIEW person AS
  SELECT STREAM date_time AS ROWTIME, * FROM person_in ORDER BY date_time WITHIN INTERVAL '4' SECOND;
CREATE VIEW auction AS
  SELECT STREAM date_time AS ROWTIME, * FROM auction_in ORDER BY date_time WITHIN INTERVAL '4' SECOND;
CREATE VIEW bid AS
  SELECT STREAM date_time AS ROWTIME, * FROM bid_in ORDER BY date_time WITHIN INTERVAL '4' SECOND;
