-- Bids with the number of their channel.
CREATE VIEW q21 AS
  SELECT STREAM auction, bidder, price, channel,
    CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
      WHEN 'baidu' THEN '3' ELSE SUBSTRING(url FROM POSITION('channel_id=' IN url) + 11) END AS channel_id
  FROM bid
  WHERE LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu') OR POSITION('channel_id=' IN url) > 0;
